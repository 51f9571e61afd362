package idempotent_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
)

// Whatever is stored, what arrives is one well-formed answer, with nothing in it that was not a
// field of the stored one, and nothing of a connection or a session.
func FuzzStoredAnswer(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"status":200}`, `{"status":201,"header":{"A":["b"]},"body":"cGVu"}`,
		`{"status":500}`, `{"status":-1}`,
		`{"status":204,"body":"cGVu"}`, `[]`, `{"status":200,"header":{"":["\n"]}}`,
		`{"status":200,"trailer":{"A":["b"],"Set-Cookie":["c"]}}`,
		`{"status":200,"header":{"A":["b\r\nSet-Cookie: c=d\r\n\r\n<html>"],` +
			`"B\r\nSet-Cookie":["c"],"set-cookie":["e"],"C: d":["e"]}}`,
		`{"status":200,"body":"cGVu","trailer":{"A\r\nSet-Cookie":["c"],"A, Set-Cookie":["c"],` +
			`"X":["\u0000\r\nY: z"]}}`,
		`{"status":200,"body":"cGVu","header":{"Transfer-Encoding":["chunked"],` +
			`"content-length":["1"],"Trailer":["X"],"Connection":["close"]}}`,
		`{"status":304,"header":{"Trailer:X":["y"],"trailer:X":["y"],"Lockbeat-Refused":["true"],` +
			`"Upgrade":["h2c"]}}`,
		`{"status":101}`, `{"status":199}`, `{"status":999}`, `{"status":1000}`,
		`{"status":205,"body":"cGVu","header":{"É":["ü"]}}`,
	} {
		f.Add([]byte(s))
	}
	var replay atomic.Pointer[func(http.ResponseWriter)]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		(*replay.Load())(w)
	}))
	f.Cleanup(server.Close)
	client := &http.Transport{DisableCompression: true}
	f.Cleanup(client.CloseIdleConnections)
	f.Fuzz(func(t *testing.T, data []byte) {
		stored, err := idempotent.DecodeAnswer(data)
		if err != nil {
			return
		}
		require.True(t, json.Valid(data))
		require.GreaterOrEqual(t, stored.Status, 200)
		require.LessOrEqual(t, stored.Status, 999)
		replay.Store(&stored.Replay)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
		require.NoError(t, err)
		res, err := client.RoundTrip(r)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())

		require.Equal(t, stored.Status, res.StatusCode)
		require.Equal(t, "true", res.Header.Get(idempotent.ReplayedHeader))
		if res.StatusCode != http.StatusNoContent && res.StatusCode != http.StatusNotModified {
			require.Equal(t, string(stored.Body), string(body))
		}
		for _, name := range []string{
			"Set-Cookie", "Lockbeat-Refused", "Upgrade", "Trailer",
			"Keep-Alive",
		} {
			require.NotContains(t, res.Header, name)
			require.NotContains(t, res.Trailer, name)
		}
		require.Subset(t, append(canonical(stored.Header), "Content-Length", "Content-Type", "Date",
			idempotent.ReplayedHeader), canonical(res.Header))
		require.Subset(t, canonical(stored.Trailer), canonical(res.Trailer))
	})
}

// canonical are the names of fields.
func canonical(h http.Header) (names []string) {
	for name := range maps.Keys(h) {
		names = append(names, http.CanonicalHeaderKey(name))
	}
	slices.Sort(names)
	return names
}

// What was not sealed by one of the keys, for this request, is not opened, and what was is.
func FuzzSealedAnswer(f *testing.F) {
	f.Add([]byte(`{"status":200}`), "name", "input", 0, byte(1))
	f.Add([]byte{}, "", "", 9, byte('\n'))
	f.Add([]byte("lbsealed1\n"), "a", "b,1:c", 37, byte(255))
	f.Fuzz(func(t *testing.T, data []byte, name, input string, at int, flip byte) {
		seal, open := idempotent.Sealer(newKey, oldKey)
		_, err := open(data, name, input)
		require.Error(t, err, "it was never sealed")
		_, err = open(append([]byte("lbsealed1\n"), data...), name, input)
		require.Error(t, err)

		sealed := seal(data, name, input)
		require.Len(t, sealed, len(data)+38)
		got, err := open(sealed, name, input)
		require.NoError(t, err)
		require.Equal(t, string(data), string(got))
		for _, other := range [][2]string{
			{name + "x", input},
			{name, input + "x"},
			{input, name},
			{name + input, ""},
		} {
			if other != [2]string{name, input} {
				_, err = open(sealed, other[0], other[1])
				require.Error(t, err, "%q", other)
			}
		}
		_, opensOld := idempotent.Sealer(oldKey)
		_, err = opensOld(sealed, name, input)
		require.Error(t, err, "another key")
		if flip != 0 {
			sealed[uint(at)%uint(len(sealed))] ^= flip
			_, err = open(sealed, name, input)
			require.Error(t, err)
		}
	})
}

func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{
		"", "k", `"k"`, `"a\"b"`, `"a\\"`, `"`, `"a"b`, " k ", "\x00",
		strings.Repeat("k", 256),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := idempotent.ParseKey(text)
		if err != nil {
			require.ErrorIs(t, err, idempotent.ErrKey)
			require.Empty(t, key)
			return
		}
		require.NotEmpty(t, key)
		require.LessOrEqual(t, len(key), 255)
		again, err := idempotent.ParseKey(`"` + strings.NewReplacer(`\`, `\\`, `"`,
			`\"`).Replace(key) +
			`"`)
		require.NoError(t, err)
		require.Equal(t, key, again, "quoted or not, it is one key")
	})
}
