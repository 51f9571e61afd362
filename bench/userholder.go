package main

import "context"

// userHolder holds with a library that leaves renewal to its user.
type userHolder struct {
	contender *contender
	spec      childSpec
	mutexes   []mutex // kept, as their users do
	contexts
}

func newUserHolder(s childSpec) (*userHolder, error) {
	c, err := newContender(s.Who, deployment{addr: s.Addr}, s.TTL)
	if err != nil {
		return nil, err
	}
	return &userHolder{c, s, make([]mutex, s.Leases), make(contexts, s.Leases)}, nil
}

func (h *userHolder) acquire(ctx context.Context, name string, number int) error {
	m := h.contender.mutex(name)
	told, err := m.lock(ctx)
	if err != nil {
		return err
	}
	h.mutexes[number] = m
	//nolint:fatcontext // a place for each lease; none is nested in another
	h.contexts[number], _ = keepAlive(ctx, told, m, h.spec.TTL)
	return nil
}

func (h *userHolder) packages() []string { return []string{"main.keepAlive"} }
