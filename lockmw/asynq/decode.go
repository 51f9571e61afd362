package asynqmw

import (
	"fmt"
	"reflect"

	"github.com/hibiken/asynq"
)

// decoder returns what turns a task into its payload. The codec gets a pointer to the value: if T is itself a pointer, that
// one, allocated, since a codec such as proto.Unmarshal wants a *Message and not a **Message; it is never nil then, not even
// for a JSON null.
func decoder[T any](codec func([]byte, any) error) func(*asynq.Task) (T, error) {
	typ := reflect.TypeFor[T]()
	return func(task *asynq.Task) (payload T, err error) {
		var into any = &payload
		if typ.Kind() == reflect.Pointer {
			value := reflect.New(typ.Elem())
			reflect.ValueOf(&payload).Elem().Set(value)
			into = value.Interface()
		}
		if err := codec(task.Payload(), into); err != nil {
			return payload, unusable(task, fmt.Sprintf("it is no %v", typ), err)
		}
		return payload, nil
	}
}
