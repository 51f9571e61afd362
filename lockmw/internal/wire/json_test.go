package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
)

func TestNamesThatAreThereTwice(t *testing.T) {
	t.Parallel()
	for text, twice := range map[string]bool{
		`{"from":"a","from":"b"}`:                   true,
		`{"from":"a","fr\u006fm":"b"}`:              true,
		`{"a":[{"b":1},{"c":2,"c":3}]}`:             true,
		`{"a":{"b":1},"c":[1,{"d":[]}],"a":0}`:      true,
		`{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}`: false,
		`{"a":"a","b":"a,\"a\":1"}`:                 false,
		`["a","a",{"\\":1,"\"":2}]`:                 false,
		"\t\"a\"":                                   false,
		`null`:                                      false,
	} {
		var v any
		err := wire.DecodeJSON([]byte(text), &v)
		if twice {
			require.ErrorIs(t, err, wire.ErrDuplicate, text)
		} else {
			require.NoError(t, err, text)
		}
	}
	var v any
	assert.Error(t, wire.DecodeJSON([]byte(`{"a":1`), &v))
}

// A struct's field has many names.
func TestNamesOfOneField(t *testing.T) {
	t.Parallel()
	type key struct{ Kelvin, Other string }
	var into *key
	for text, twice := range map[string]bool{
		`{"Kelvin":"a","KELVIN":"b"}`:               true,
		`{"kelvin":"a","\u212aelvin":"b"}`:          true,
		`{"Kelvin":"a","Other":"b"}`:                false,
		`{"Kelvin":"a","Unknown":{"b":"","B":"c"}}`: false,
	} {
		assert.Equal(t, twice, errors.Is(wire.DecodeJSON([]byte(text), &into), wire.ErrDuplicate),
			text)
	}
	var own bag
	require.NoError(t, wire.DecodeJSON([]byte(`{"a":"1","A":"2"}`), &own))
	var set map[string]string
	require.NoError(t, wire.DecodeJSON([]byte(`{"a":"","A":""}`), &set))
}

// FuzzDecodeJSON holds the search for names that are there twice against a
// parser's own tokens.
func FuzzDecodeJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"a":2}`, `{"a":{"a":1},"b":[{"a":"}"}]}`, `[[],{},"{",{"":"","\u0000":0}]`,
		`{"\ud800":1,"\udfff":2}`, `{`, ``, "{\"\xff\":1,\"\xfe\":2}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		err := wire.DecodeJSON(data, &v)
		if !json.Valid(data) {
			require.Error(t, err)
			return
		}
		require.Equal(t, twice(t, data), errors.Is(err, wire.ErrDuplicate), "%q", data)
	})
}

// twice is a plain way to find what DecodeJSON finds.
func twice(t *testing.T, data []byte) bool {
	t.Helper()
	var found bool
	var value func(d *json.Decoder)
	value = func(d *json.Decoder) {
		token, err := d.Token()
		require.NoError(t, err)
		switch token {
		case json.Delim('['):
			for d.More() {
				value(d)
			}
		case json.Delim('{'):
			names := map[any]bool{}
			for d.More() {
				name, err := d.Token()
				require.NoError(t, err)
				found = found || names[name]
				names[name] = true
				value(d)
			}
		default:
			return
		}
		_, err = d.Token()
		require.NoError(t, err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	value(d)
	_, err := d.Token()
	require.ErrorIs(t, err, io.EOF)
	return found
}

// bag is a struct that is written as a map.
type bag struct{ names map[string]string }

func (b *bag) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &b.names) }
