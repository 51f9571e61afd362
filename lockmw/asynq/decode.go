package asynqmw

import (
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
