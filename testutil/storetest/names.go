package storetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

var nameCases = []testCase{
	{"odd names are all different", oddNames},
	{"odd names are told of their release", oddNamesWatched},
}

// names look alike to a store that does not escape well, cuts, folds,
// or lets one key be made of another's.
var names = []string{
	"a", "A", " a", "a ", "a\n", "aa", "á", "a\u0301", "ä", "\xe4", "日本", "\xff\xfe", "\xc3\x28",
	"{", "}", "{}", "{a}", "{a", "a}", "}a{", "{a}{b}", "{{a}}", "a{b}c",
	":", "a:", ":a", "a:fence", "a}:fence", "{a}:fence", "a:fence:fence", "fence", ":fence",
	"a:freed", "{a}:freed", "a}:freed",
	"lockbeat:a", "lockbeat:{a}", "lockbeat:{a}:fence",
	"\x00", "a\x00", "\x00a", "a\x00b", "\x01", "\x7f", "\r\n", "a\r\nb", "\t",
	"%", "%%", "%00", "a%00", "%7B", "%7Ba%7D", "{%7D", "%25", "%257B", "%2", "%zz", "%41",
	"*", "?", "[a]", "\\", "\\x00", "a\\", "\"a\"", "'a'", "a/b", "a//b", "../a", "$a", "0", "-1",
	"nil", "null",
	strings.Repeat("x", store.MaxName), strings.Repeat("x", store.MaxName-1),
	strings.Repeat("x", store.MaxName-1) + "y",
	strings.Repeat("\x00", store.MaxName), strings.Repeat("{", store.MaxName),
	strings.Repeat("%", store.MaxName),
	strings.Repeat("é", store.MaxName/2),
}

func oddNames(t *testing.T, s *suite) {
	owners := make(map[string]string)
	for _, name := range names {
		require.NoError(t, renewer.CheckName(name))
		owners[name] = newOwner()
		s.own(t, name, owners[name], long)
	}
	for _, name := range names {
		s.refused(t, name, newOwner())
		assertStatus(t, store.StatusHeld, s.renew(t, name, owners[name], long), "%q", name)
	}
	for i, name := range names {
		requireStatus(t, store.StatusHeld, s.release(t, name, owners[name]), "%q", name)
		s.obtain(t, name, newOwner())
		for _, other := range names[i+1 : min(i+6, len(names))] { // like ones stand together
			requireStatus(t, store.StatusHeld, s.renew(t, other, owners[other], long),
				"%q, after the release of %q", other, name)
		}
	}
}

func oddNamesWatched(t *testing.T, s *suite) {
	for i, name := range names {
		t.Logf("%d: %q", i, name) // names the culprit when a wait below fails
		w := s.watch(name)
		w.await(t, s, "the watch is set up")
		owner := newOwner()
		s.own(t, name, owner, long)
		s.refused(t, name, newOwner())
		w.clear()
		requireStatus(t, store.StatusHeld, s.release(t, name, owner))
		w.await(t, s, "its release")
		w.stop()
	}
}
