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

// An event of a connection that has been replaced must not be taken for one of
// its successor: the channel would count as subscribed to when it is not yet.
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
	come, unwoken, _ := s.Changes(l)
	assert.Empty(t, come)
	assert.Zero(t, unwoken)
	assert.Equal(t, 1, s.Confirm(l))
}

// A subscription that the server has ended is asked for again, and confirmed
// again.
func TestASubscriptionThatTheServerEnds(t *testing.T) {
	t.Parallel()
	s := subscription.NewServer()
	l, _ := s.Connect()
	s.Confirm(l)
	s.Withdraw(l)
	come, unwoken, _ := s.Changes(l)
	assert.Equal(t, []string{"a"}, come)
	assert.Zero(t, unwoken, "the confirmation will wake it")
	assert.Equal(t, 1, s.Confirm(l))
}

// What nobody wants any more stays subscribed to, until it has lost its server:
// no confirmation will come when it is wanted again, so that its watches must
// be woken without one.
func TestAChannelThatIsWantedAgain(t *testing.T) {
	t.Parallel()
	for name, looked := range map[string]bool{"before the loop looks": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := subscription.NewServer()
			l, _ := s.Connect()
			s.Confirm(l)
			again := func() (come []string, unwoken int) {
				s.Drop()
				if looked {
					come, unwoken, _ = s.Changes(l)
					assert.Empty(t, come)
					assert.Zero(t, unwoken)
				}
				s.Want()
				come, unwoken, _ = s.Changes(l)
				return come, unwoken
			}
			come, unwoken := again()
			assert.Empty(t, come)
			assert.Equal(t, 1, unwoken)
			assert.Equal(t, 1, s.Publish(l))
			s.Drop()
			s.Withdraw(l)
			s.Want()
			come, unwoken, _ = s.Changes(l)
			assert.Equal(t, []string{"a"}, come, "the server has ended it")
			assert.Zero(t, unwoken)
		})
	}
}

// Messages that nobody wants any more end in a new connection.
func TestMessagesInVain(t *testing.T) {
	t.Parallel()
	s := subscription.NewServer()
	l, _ := s.Connect()
	s.Confirm(l)
	s.Drop()
	for range subscription.MostWaste - 1 {
		assert.Zero(t, s.Publish(l))
	}
	_, _, wasteful := s.Changes(l)
	assert.False(t, wasteful)
	assert.Zero(t, s.Publish(l))
	_, _, wasteful = s.Changes(l)
	assert.True(t, wasteful)
	s.Disconnect(l)
	s.Want()
	l, come := s.Connect()
	assert.Equal(t, []string{"a"}, come)
	_, _, wasteful = s.Changes(l)
	assert.False(t, wasteful)
}
