package asynqmw

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
)

// decoder returns what turns a task into its payload.
func decoder[T any](codec func([]byte, any) error) func(*asynq.Task) (T, error) {
	return func(task *asynq.Task) (payload T, err error) {
		if err := codec(task.Payload(), wire.Into(&payload)); err != nil {
			return payload, unusable(task, fmt.Sprintf("it is no %v", reflect.TypeFor[T]()), err)
		}
		return payload, nil
	}
}

// decodeJSON is json.Unmarshal, except that a task without a payload leaves what v points to as it
// is. An object that has a name twice is no error, as it is in what an HTTP client sends: here the
// key and the work come from one parsed value, and payloads from programs of one's own.
func decodeJSON(data []byte, v any) error {
	if len(data) == 0 {
		return nil
	}
	return json.Unmarshal(data, v)
}
