package idempotent_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
)

// Whatever is stored, what arrives is one well-formed answer, with nothing in
// it that was not a field of the stored one, and nothing of a connection or a
// session.
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
		require.Equal(t, "true", res.Header.Get("Idempotent-Replayed"))
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
			"Idempotent-Replayed"), canonical(res.Header))
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

// Whatever a client sends as a form, another body is another request.
func FuzzBoundary(f *testing.F) {
	const form = "multipart/form-data; boundary="
	for _, s := range [][3]string{
		{form + "a", "--a\r\n\r\npen\r\n--a--\r\n", "--a\r\n\r\nink\r\n--a--\r\n"},
		{form + "a", "--a\r\n\r\n--apple\r\n--a--", "--a\r\n\r\n--a\r\n--a--"},
		{form + `"a b"`, "--a b \n--a b--", "--a b\n--a b--"},
		{form, "--\r\n----", ""},
		{form + "a", "--lockbeat-compares-forms-by-one-boundary\r\n", "--a\r\n"},
		{"multipart/;boundary=a", "--a", "--b"},
		{"text/plain", "--a", "--b"},
		{"", "", "a"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, contentType, one, other string) {
		kind, compared := idempotent.SameBoundary(contentType, []byte(one))
		otherKind, otherCompared := idempotent.SameBoundary(contentType, []byte(other))
		require.Equal(t, one == other,
			kind == otherKind && bytes.Equal(compared, otherCompared))
	})
}
