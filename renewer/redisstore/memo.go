package redisstore

import "sync/atomic"

// memo remembers the last text that was made of a value, since the next one is nearly always of the
// same value. Its make must be set. It may be used concurrently.
type memo[K comparable] struct {
	make func(K) string
	last atomic.Pointer[remembered[K]]
}

type remembered[K comparable] struct {
	key  K
	text string
}

func (m *memo[K]) of(key K) string {
	if last := m.last.Load(); last != nil && last.key == key {
		return last.text
	}
	text := m.make(key)
	m.last.Store(&remembered[K]{key, text})
	return text
}
