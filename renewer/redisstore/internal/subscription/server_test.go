package subscription_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/subscription"
)

func TestAMessageIsForEveryWatch(t *testing.T) {
	t.Parallel()
	s := subscription.NewServer()
	l, come := s.Connect()
	assert.Equal(t, []string{"a"}, come)
	assert.Equal(t, 1, s.Confirm(l), "what was published before has been missed")
	assert.Equal(t, 1, s.Publish(l))
	assert.True(t, s.Disconnect(l))
}

// An event of a connection that has been replaced must not be taken for one of its successor: the
// channel would count as subscribed to when it is not yet.
func TestEventsOfAFormerConnection(t *testing.T) {
	t.Parallel()
	s := subscription.NewServer()
	former, _ := s.Connect()
	assert.False(t, s.Disconnect(former), "nothing was confirmed")
	l, come := s.Connect()
	assert.Equal(t, []string{"a"}, come, "each connection begins with all")
	assert.Zero(t, s.Confirm(former))
	assert.Zero(t, s.Publish(former))
	s.Withdraw(former)
	come, gone, unwoken := s.Changes(l)
	assert.Empty(t, come)
	assert.Empty(t, gone)
	assert.Zero(t, unwoken)
	assert.Equal(t, 1, s.Confirm(l))
}

// A subscription that the server has ended is asked for again, and confirmed again.
func TestASubscriptionThatTheServerEnds(t *testing.T) {
	t.Parallel()
	s := subscription.NewServer()
	l, _ := s.Connect()
	s.Confirm(l)
	s.Withdraw(l)
	come, _, unwoken := s.Changes(l)
	assert.Equal(t, []string{"a"}, come)
	assert.Zero(t, unwoken, "the confirmation will wake it")
	assert.Equal(t, 1, s.Confirm(l))
}

// A channel that went and came again before the loop looked is still subscribed to: no confirmation
// will come, so that its watches must be woken without one.
func TestAChannelThatGoesAndComesAgain(t *testing.T) {
	t.Parallel()
	s := subscription.NewServer()
	l, _ := s.Connect()
	s.Confirm(l)
	s.Rewatch()
	come, gone, unwoken := s.Changes(l)
	assert.Empty(t, come)
	assert.Empty(t, gone)
	assert.Equal(t, 1, unwoken)
}
