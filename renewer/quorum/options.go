package quorum

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Option changes one thing about a [Store].
type Option func(*settings)

type settings struct {
	names []string
	log   *slog.Logger
}

// Names names the nodes, in their order, for errors and for other programs:
// "redis-a", or an address without a password. Programs that have the same
// servers under the same names, in any order, have the same quorum. [New]
// refuses a program that shares a server with another quorum.
//
// Without this option nodes are numbered, and nothing is compared with other
// programs.
func Names(names ...string) Option {
	return func(s *settings) { s.names = append([]string{}, names...) }
}

// Log sets where warnings go: that too few nodes could be asked when the store
// was made, and that programs with other nodes were found later on. By default
// they go to slog.Default(); renewer.Silent is for none.
func Log(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// configure applies the options, and names every fault in one error.
func configure(nodes []store.Store, opts []Option) (settings, error) {
	c := settings{log: slog.Default()}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	var faults []string
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf(format, args...))
	}

	n := len(nodes)
	switch {
	case n == 0:
		fault("nodes: there are none; give 3 or 5 stores on servers of their own")
	case n%2 == 0:
		fault("nodes: %d is even: it needs %d for a majority and survives %d failures, as %d do; "+
			"give %d or %d", n, n/2+1, n/2-1, n-1, n-1, n+1)
	}
	for i, node := range nodes {
		if isNil(node) {
			fault("nodes: number %d is nil; check the error of what made it", i+1)
			continue
		}
		if _, ok := node.(contract.Proposer); !ok {
			fault("nodes: number %d, a %T, takes no fencing tokens from its client; "+
				"give one that does, such as redisstore's", i+1, node)
		}
		if j := slices.IndexFunc(nodes[:i], func(other store.Store) bool {
			return same(node, other)
		}); j >= 0 {
			fault("nodes: numbers %d and %d are the same store; give each server once", j+1, i+1)
		} else if j := slices.IndexFunc(nodes[:i], func(other store.Store) bool {
			return sameServer(node, other)
		}); j >= 0 {
			fault("nodes: numbers %d and %d are the same server; give each once", j+1, i+1)
		}
	}
	if c.log == nil {
		fault("Log: is nil; leave it out for slog.Default(), or give renewer.Silent")
	}
	if c.names != nil && len(c.names) != n {
		fault("Names: there are %d for %d nodes; give each node one", len(c.names), n)
	}
	for i, name := range c.names {
		if name == "" {
			fault("Names: number %d is empty; name each node, or leave the option out", i+1)
		} else if j := slices.Index(c.names[:i], name); j >= 0 {
			fault("Names: numbers %d and %d are both %q; give each server once", j+1, i+1, name)
		}
	}
	if len(faults) > 0 {
		return c, fmt.Errorf("quorum: %w: %s", renewer.ErrConfig, strings.Join(faults, "; "))
	}
	return c, nil
}

// isNil also finds the nil of a concrete store inside an interface that is not
// nil.
func isNil(s any) bool {
	v := reflect.ValueOf(s)
	return s == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// same compares stores without a panic on those that can't be compared.
func same(a, b store.Store) bool { return !isNil(b) && reflect.TypeOf(a).Comparable() && a == b }

// sameServer compares the servers of stores that know theirs, such as
// redisstore's.
func sameServer(a, b store.Store) bool {
	server := func(s store.Store) string {
		if known, ok := s.(interface{ Server() string }); ok && !isNil(s) {
			return known.Server()
		}
		return ""
	}
	return server(a) != "" && server(a) == server(b)
}
