package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
)

// ring is the floor of hand-overs between processes: what a user could write by hand if all members
// were known, each of them always wanted the key, and none ever died. A member waits for a message
// on its own channel, claims the key by a script, and passes it to the next member by another. Its
// client has rueidis' own settings: one for commands alone, by the synchronous path, and another to
// listen are no quicker here.
const ring = "raw ring"

// The ring's scripts. Each member has a token as long as an owner token of Lockbeat.
var (
	// KEYS[1] the key; ARGV: the member's token, the TTL in ms.
	ringClaim = rueidis.NewLuaScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
	// KEYS[1] the key; ARGV: the next member's token, the TTL in ms, the next member's channel.
	ringPass = rueidis.NewLuaScript(`redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('PUBLISH', ARGV[3], '')`)
)

// ringMember is one of a ring. It is a mutex of one goroutine.
type ringMember struct {
	client     rueidis.Client
	key, ttl   string
	number, of int
	turns      chan struct{}
}

func ringToken(number int) string {
	digits := strconv.Itoa(number)
	return strings.Repeat("-", renewer.OwnerLen-len(digits)) + digits
}

func ringChannel(key string, number int) string { return key + ":" + strconv.Itoa(number) }

// newRingMember connects the member of a ring, and returns when it hears its channel.
func newRingMember(
	ctx context.Context, addr, key string, number, of int, ttl time.Duration,
) (*ringMember, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true,
		ClientName: memberName(number),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	m := &ringMember{
		client: client, key: key, ttl: millis(ttl), number: number, of: of,
		turns: make(chan struct{}, 1),
	}
	heard := make(chan error, 1)
	listening := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) {
		heard <- nil
	})
	go func() {
		subscribe := client.B().Subscribe().Channel(ringChannel(key, number)).Build()
		if err := client.Receive(listening, subscribe, m.hear); err != nil {
			select {
			case heard <- err:
			default: // it is heard already, and closes
			}
		}
	}()
	if err := <-heard; err != nil {
		m.close()
		return nil, fmt.Errorf("ring: %w", err)
	}
	return m, nil
}

func (m *ringMember) hear(rueidis.PubSubMessage) { m.turns <- struct{}{} }

// begin gives the key to this member.
func (m *ringMember) begin(ctx context.Context) error { return m.pass(ctx, m.number) }

func (m *ringMember) lock(ctx context.Context) (told context.Context, err error) {
	select {
	case <-m.turns:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	claimed, err := ringClaim.Exec(context.WithoutCancel(ctx), m.client, []string{m.key},
		[]string{ringToken(m.number), m.ttl}).AsBool()
	if err == nil && !claimed {
		err = errors.New("ring: the key is another's")
	}
	return ctx, err
}

func (m *ringMember) extend(context.Context) error { return errItself }

func (m *ringMember) unlock(ctx context.Context) error {
	return m.pass(ctx, (m.number+1)%m.of)
}

func (m *ringMember) pass(ctx context.Context, to int) error {
	return ringPass.Exec(context.WithoutCancel(ctx), m.client, []string{m.key},
		[]string{ringToken(to), m.ttl, ringChannel(m.key, to)}).Error()
}

func (m *ringMember) close() { m.client.Close() }
