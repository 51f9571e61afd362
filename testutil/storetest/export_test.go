package storetest

import (
	"slices"
	"testing"
)

// RunOne is [RunInBubble] for the case of a name.
func RunOne(t *testing.T, name string, open func(t *testing.T) Fixture) {
	t.Helper()
	all := append(cases(), crowdCases...)
	i := slices.IndexFunc(all, func(c testCase) bool { return c.name == name })
	if i < 0 {
		panic("there is no case " + name)
	}
	all[i].inBubble(t, open)
}
