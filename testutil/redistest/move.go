package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Slot returns the hash slot of a key: that of what is between its
// first braces, if there is anything.
func Slot(key string) int {
	if _, tail, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(tail, "}"); ok && tag != "" {
			key = tag
		}
	}
	crc := uint16(0) // CRC-16/XMODEM
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc % Slots)
}

// Move is a slot on its way from one master to another. Until Finish it is
// between the two, as it is for the time that redis-cli --cluster reshard
// takes: each serves the keys that it has, and the one that it leaves sends
// clients on for others.
type Move struct {
	c        *Cluster
	number   int
	slot     string // the same
	from, to *Server
}

// BeginMove begins to move a slot to a master, without any of its keys.
func (c *Cluster) BeginMove(slot int, to *Server) (*Move, error) {
	from, err := c.Serving(slot)
	if err != nil {
		return nil, err
	}
	if from == to {
		return nil, fmt.Errorf("redistest: slot %d is with %s already", slot, to.Addr())
	}
	m := &Move{c: c, number: slot, slot: strconv.Itoa(slot), from: from, to: to}
	return m, errors.Join(
		to.do("CLUSTER", "SETSLOT", m.slot, "IMPORTING", c.ids[from]),
		from.do("CLUSTER", "SETSLOT", m.slot, "MIGRATING", c.ids[to]),
	)
}

// Keys moves some of the slot's keys, or those that are left if none
// are named. A key that has gone meanwhile is no error.
func (m *Move) Keys(keys ...string) error {
	if len(keys) > 0 {
		return m.migrate(keys)
	}
	for {
		left, err := m.from.Do("CLUSTER", "GETKEYSINSLOT", m.slot, "100").AsStrSlice()
		if err != nil || len(left) == 0 {
			return err
		}
		if err := m.migrate(left); err != nil {
			return err
		}
	}
}

func (m *Move) migrate(keys []string) error {
	args := append([]string{
		"MIGRATE", "127.0.0.1", strconv.Itoa(m.to.Port()), "", "0", "5000",
		"KEYS",
	}, keys...)
	return m.from.do(args...)
}

// Finish moves the keys that are left, and gives the slot to its new
// master. It returns when all masters that run know that.
func (m *Move) Finish() error {
	if err := m.Keys(); err != nil {
		return err
	}
	// The new master first: were the old one first, both would send
	// clients to the other for a moment.
	if err := m.to.do("CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.to]); err != nil {
		return err
	}
	for _, s := range m.c.Masters {
		if s != m.to && s.running() {
			if err := s.do("CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.to]); err != nil {
				return err
			}
		}
	}
	return m.c.AwaitOwner(m.number, m.to)
}

// AwaitOwner returns when all masters that run know that owner serves a slot,
// and with which epoch: until they know the epoch, an old message of the former
// owner could change their minds.
func (c *Cluster) AwaitOwner(slot int, owner *Server) error {
	return await("all masters know where the slot is", func() (bool, error) {
		epoch, err := c.epoch(owner, owner)
		for _, s := range c.Masters {
			if err != nil {
				return false, err
			}
			if !s.running() {
				continue
			}
			known, err := c.epoch(s, owner)
			if err != nil || known != epoch {
				return false, err
			}
			if now, err := c.owner(s, slot); err != nil || now != owner {
				return false, err
			}
		}
		return err == nil, err
	})
}

// epoch is the configuration epoch of a server in the eyes of another.
func (c *Cluster) epoch(eyes, of *Server) (string, error) {
	text, err := eyes.Do("CLUSTER", "NODES").ToString()
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) {
		if fields := strings.Fields(line); len(fields) > 6 && fields[0] == c.ids[of] {
			return fields[6], err
		}
	}
	return "", errors.Join(fmt.Errorf("redistest: %s does not know %s", eyes.Addr(), of.Addr()),
		err)
}

// MoveSlot moves a slot with all of its keys.
func (c *Cluster) MoveSlot(slot int, to *Server) error {
	m, err := c.BeginMove(slot, to)
	if err != nil {
		return err
	}
	return m.Finish()
}
