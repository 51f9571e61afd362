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

// Redis grants the rights of a line apart from those of locks.
func TestTasksWithoutRights(t *testing.T) {
	t.Parallel()
	redis, s := startReal(t)
	args := append([]string{
		"ACL", "SETUSER", "locks", "reset", "resetchannels", "on", ">secret",
		"~lockbeat:{*", "&lockbeat:{*",
	}, strings.Fields(redisstore.Rights)...)
	require.NoError(t, redis.Do(args...).Error())
	s.option.Username, s.option.Password = "locks", "secret"
	store := s.store(t)
	mine(t, store, claim("a", "a", time.Hour))
	_, err := store.Arrive(t.Context(), waiting(task("1")))
	require.ErrorIs(t, err, renewer.ErrRejected)
	require.ErrorContains(t, err, "tasks that stand in line need further rights: "+
		redisstore.TaskRights)
	assert.NotContains(t, err.Error(), redisstore.Rights, "it has these")

	tasks := strings.Fields(redisstore.TaskRights)
	require.NoError(t, redis.Do(append([]string{"ACL", "SETUSER", "locks"}, tasks...)...).Error())
	assert.Equal(t, ask, arrive(t, store, waiting(task("1"))))
	assert.Equal(t, 0, arrive(t, store, waiting(task("2"))))
	copied := waiting(task("2b"))
	copied.For = task("2")
	assert.Equal(t, 0, arrive(t, store, copied))
	assert.Equal(t, wakes(1, task("2b")), nextTask(t, store, contract.TaskGranted, task("1")))
}

// Each right of a line of tasks is needed by one of its two questions at least.
func TestEachRightOfTasksIsNeeded(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	all := strings.Fields(redisstore.Rights + " " + redisstore.TaskRights)
	store, err := redisstore.NewEngine(s.user(t, redisstore.DefaultPrefix, all...))
	require.NoError(t, err)
	t.Cleanup(store.Close)
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
		require.ErrorIs(t, errs(), renewer.ErrRejected, right)
		s.ok(t, "ACL", "SETUSER", "locks", right)
	}
}
