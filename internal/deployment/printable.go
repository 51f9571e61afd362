package deployment

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/redis/rueidis"
)

// mostShown bounds what is looked at of a server's error, in bytes: more than
// an error of our scripts has with the longest name, of which each byte may be
// escaped.
const mostShown = 8192

// Arguments is where Redis' own error begins to repeat a command that it does
// not know.
const Arguments = ", with args beginning with"

// Printable is what a server says as it may be shown, but for its length: one
// line without control bytes, without the arguments of a command that the
// server does not know, since AUTH may be one, and without the secrets, however
// they are written.
func Printable(text string, secrets ...string) string {
	text, _, _ = strings.Cut(text[:min(len(text), mostShown)], Arguments)
	for _, secret := range secrets {
		quoted := strconv.Quote(secret)
		for _, form := range []string{
			secret, quoted[1 : len(quoted)-1], url.QueryEscape(secret), url.PathEscape(secret),
		} {
			if form != "" {
				text = strings.ReplaceAll(text, form, "…")
			}
		}
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// Secrets are the passwords that a client sends. It may be used concurrently.
type Secrets struct {
	mu  sync.Mutex
	all []string
}

// mostSecrets bounds how many are known, of those that change.
const mostSecrets = 8

// SecretsOf returns the passwords in a client's options, and notes those that a
// function will give.
func SecretsOf(option *rueidis.ClientOption) *Secrets {
	s := &Secrets{}
	s.note(option.Password)
	s.note(option.Sentinel.Password)
	if ask := option.AuthCredentialsFn; ask != nil {
		option.AuthCredentialsFn = func(
			about rueidis.AuthCredentialsContext,
		) (rueidis.AuthCredentials, error) {
			c, err := ask(about)
			s.note(c.Password)
			return c, err
		}
	}
	return s
}

func (s *Secrets) note(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if secret == "" || slices.Contains(s.all, secret) {
		return
	}
	if len(s.all) == mostSecrets {
		s.all = slices.Delete(s.all, 0, 1)
	}
	s.all = append(s.all, secret)
}

// In reports whether a text may have a secret in it, also one that is not
// known.
func (s *Secrets) In(text string) bool {
	return strings.Contains(text, Arguments) || s.Printable(text) != Printable(text)
}

// Printable is the function of that name, without these secrets. Those of nil
// are not known.
func (s *Secrets) Printable(text string) string {
	if s == nil {
		return Printable(text)
	}
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	// one may have another in it
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return Printable(text, all...)
}
