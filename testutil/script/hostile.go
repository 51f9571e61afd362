package script

import "strings"

// HostileTraces returns what a program that can write to a store may put there
// as the [store.Holder.Trace] of a holder. None may lead anywhere.
func HostileTraces() []string {
	const (
		sampled   = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
		unsampled = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"
	)
	return []string{
		"", "00", unsampled,
		strings.ToUpper(sampled),
		"00-00000000000000000000000000000000-0123456789abcdef-01",
		"00-0123456789abcdef0123456789abcdef-0000000000000000-01",
		"ff-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
		"01-0123456789abcdef0123456789abcdef-0123456789abcdef-01-more",
		"00-0123456789abcdef0123456789abcdeg-0123456789abcdef-01",
		"00-0123456789abcdef0123456789abcdef_0123456789abcdef-01",
		"00-0123456789abcdef0123456789abcdef-0123456789abcdef-05",
		sampled + "\n", " " + sampled, sampled[:54], sampled + "-00",
		strings.Repeat("\xff", 55), strings.Repeat("-", 55), strings.Repeat("0", 55),
		strings.Repeat("é", 28)[:55],
		strings.Repeat("x", 10_000), "\x00\x1b[31m",
	}
}
