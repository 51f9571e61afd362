package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// Each right of a line of tasks is needed by one of its two questions at least.
func TestEachRightOfTasksIsNeeded(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.storeWith(t, redisstore.Rights+" "+redisstore.TaskRights)
	mine(t, store, claim("a", "a", time.Hour))
	errs := func() error {
		copied := waiting(task("2b"))
		copied.For = task("2")
		var errs []error
		for _, a := range []contract.Arrival{waiting(task("1")), waiting(task("2")), copied} {
			_, err := store.Arrive(t.Context(), a)
			errs = append(errs, err)
		}
		for _, what := range []contract.TaskEvent{contract.TaskGranted, contract.TaskMissing} {
			_, err := store.Next(t.Context(), lockA, 0, what, task("1"))
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	require.NoError(t, errs())
	for right := range strings.FieldsSeq(redisstore.TaskRights) {
		s.ok(t, "DEL", tasksA, slotA, wokenA)
		s.ok(t, "ACL", "SETUSER", "locks", "-"+right[1:])
		err := errs()
		require.ErrorIs(t, err, renewer.ErrRejected, right)
		assert.ErrorContains(t, err, "tasks that stand in line need further rights: "+
			redisstore.TaskRights)
		assert.NotContains(t, err.Error(), redisstore.Rights, "it has these")
		s.ok(t, "ACL", "SETUSER", "locks", right)
	}
}
