// Porcupine's verdict on histories of a key-value service, to test the checker beside it.
//
// Input: arrays of operations, as `history.rs` writes them. Output: `true` or `false` for
// each, in a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"os"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Client   int
	Key      int
	Call     string
	Value    int64
	Invoked  int64
	Returned *int64 // nil if no reply came
	Reply    *int64
}

// value is the state of a key.
type value struct {
	exists bool
	number int64
}

func apply(state value, call operation) (value, *int64) {
	switch call.Call {
	case "get":
		if !state.exists {
			return state, nil
		}
		return state, &state.number
	case "set":
		return value{true, call.Value}, nil
	case "del":
		found := int64(0)
		if state.exists {
			found = 1
		}
		return value{}, &found
	case "incr":
		sum := state.number + 1
		return value{true, sum}, &sum
	}
	log.Fatalf("unknown call %q", call.Call)
	panic("unreachable")
}

var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[int][]porcupine.Operation{}
		for _, operation_ := range history {
			key := operation_.Input.(operation).Key
			byKey[key] = append(byKey[key], operation_)
		}
		parts := [][]porcupine.Operation{}
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() interface{} { return value{} },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		call := input.(operation)
		next, reply := apply(state.(value), call)
		if call.Returned == nil {
			return true, next
		}
		found := call.Reply
		same := (reply == nil) == (found == nil) && (reply == nil || *reply == *found)
		return same, next
	},
}

func main() {
	input := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var history []operation
		if err := input.Decode(&history); err == io.EOF {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		operations := []porcupine.Operation{}
		for _, call := range history {
			returned := int64(math.MaxInt64)
			if call.Returned != nil {
				returned = *call.Returned
			}
			operations = append(operations, porcupine.Operation{
				ClientId: call.Client, Input: call, Call: call.Invoked, Return: returned,
			})
		}
		fmt.Println(porcupine.CheckOperations(model, operations))
	}
}
