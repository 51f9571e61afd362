package fault_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/nemesis/internal/fault"
	"github.com/lockbeat/lockbeat/nemesis/internal/history"
	"github.com/lockbeat/lockbeat/renewer"
)

// strike begins a fault, which the caller must heal.
func (f *field) strike(t *testing.T, name string) fault.Fault {
	t.Helper()
	kinds, err := fault.Named(f.Field, []string{name})
	require.NoError(t, err)
	one := kinds[0].New(f.Field, rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, one.Inject(), one.What)
	return one
}

// asHolder is a request of a holder that a value's reader can tell, for longer than the test takes.
func (f *field) asHolder(name string) renewer.Status {
	ctx, cancel := context.WithTimeout(context.Background(), request)
	defer cancel()
	return f.store.Acquire(ctx, []renewer.Claim{{
		Name: name, Owner: strings.Repeat("h", renewer.OwnerLen), TTL: time.Minute,
		Holder: renewer.Holder{Node: "holder", PID: 1},
	}})[0].Status
}

// Clients go to the new primary, and what is left on the former one is seen.
func TestAFailOverThatLeavesTheFormerPrimaryUp(t *testing.T) {
	t.Parallel()
	f := open(t, deploy.Sentinel)
	former, err := f.Deployment.Sentinel.Primary()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return f.asHolder("left") == renewer.StatusHeld
	}, soon, 10*time.Millisecond)
	one := f.strike(t, "fail-over-old-up")
	assert.Eventually(t, func() bool {
		return f.connection.Primary() != former.Addr()
	}, soon, time.Millisecond)
	f.hold(t, "new")
	there, err := former.Do("EXISTS", "lockbeat:{new}").AsInt64()
	require.NoError(t, err)
	assert.Zero(t, there)
	require.NoError(t, former.Do("SET", "written", "here").Error(), "nothing has demoted it")

	require.NoError(t, one.Heal())
	require.NoError(t, f.Deployment.AwaitWhole())
	told := one.FailOver()
	assert.Equal(t, former.Addr(), told.Former)
	assert.Zero(t, told.Refused)
	require.Len(t, told.Seen, 1)
	assert.Equal(t, history.Sight{At: told.Seen[0].At, Name: "left", Process: "holder"},
		told.Seen[0])
}

// A client that no Sentinel reaches stays with the former primary, and is told when one does.
func TestAFailOverThatAClientDoesNotHearOf(t *testing.T) {
	t.Parallel()
	f := open(t, deploy.Sentinel)
	former := f.connection.Primary()
	one := f.strike(t, "fail-over-unheard")
	assert.Never(t, func() bool {
		return f.connection.Primary() != former
	}, ttl, 10*time.Millisecond)
	f.hold(t, "there") // it goes on granting
	require.NoError(t, one.Heal())
	require.NoError(t, f.Deployment.AwaitWhole())
	assert.Eventually(t, func() bool {
		return f.connection.Primary() != former
	}, soon, time.Millisecond)
	assert.Eventually(t, func() bool {
		return f.acquire("another").Status == renewer.StatusHeld
	}, soon, 10*time.Millisecond)
	assert.Zero(t, one.FailOver().Refused)
}

// A former primary that wants a replica in order to write neither grants nor renews without one.
func TestAFormerPrimaryThatRefusesToWrite(t *testing.T) {
	t.Parallel()
	f := open(t, deploy.Sentinel)
	former := f.connection.Primary()
	f.hold(t, "held")
	one := f.strike(t, "fail-over-min-replicas")
	assert.Equal(t, former, f.connection.Primary())
	assert.Equal(t, renewer.StatusUnknown, f.renew("held"))
	assert.Equal(t, renewer.StatusUnknown, f.acquire("free").Status)
	require.NoError(t, one.Heal())
	require.NoError(t, f.Deployment.AwaitWhole())
	assert.Positive(t, one.FailOver().Refused)
	assert.Eventually(t, func() bool {
		return f.acquire("another").Status == renewer.StatusHeld
	}, soon, 10*time.Millisecond)
}

// A replica that stops answering, and whose link stays open, is missed for as long as its last word
// counts: this is the bound that min-replicas-max-lag gives where the former primary is cut off
// rather than left.
func TestAPrimaryMissesASilentReplicaInTime(t *testing.T) {
	t.Parallel()
	f := open(t, deploy.Sentinel)
	primary, err := f.Deployment.Sentinel.Primary()
	require.NoError(t, err)
	replica, err := f.Deployment.Sentinel.Replica()
	require.NoError(t, err)
	require.NoError(t, primary.Do("CONFIG", "SET", "min-replicas-max-lag", "1",
		"min-replicas-to-write", "1").Error())
	f.hold(t, "held")
	require.NoError(t, replica.Stop())
	silent := time.Now()
	var granted time.Duration
	require.Eventually(t, func() bool {
		asked := time.Since(silent)
		answer := f.renewal("held")
		if answer.Status == renewer.StatusHeld {
			granted = asked
		}
		return answer.Err != nil && strings.Contains(answer.Err.Error(), "NOREPLICAS")
	}, soon, 10*time.Millisecond)
	t.Logf("granted %v after the replica's last word at most", granted)
	assert.Less(t, granted, fault.MaxLag+fault.LagSlack)
	require.NoError(t, replica.Cont())
}
