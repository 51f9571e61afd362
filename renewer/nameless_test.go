package renewer_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

// hashOfAccount is what sha256sum shows of account:42: see HashName.
const hashOfAccount = "38dbcc9b3c91186a"

func TestHashName(t *testing.T) {
	t.Parallel()
	require.Equal(t, hashOfAccount, renewer.HashName("account:42", nil))
	require.Equal(t, hashOfAccount, renewer.HashName("account:42", []byte{}))
	require.Equal(t, "e7aaf33aa80824e8", renewer.HashName("secret:42", []byte("pepper")))
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	held := &renewer.Error{
		Op: "acquire", Name: "jane", Kind: renewer.ErrBusy, Holder: other, Waited: time.Second,
	}
	lost := &renewer.LostError{Name: "jane", Reason: renewer.ReasonTaken, Err: held}
	const heldText = "lockbeat: acquire a lock: held by another owner after 1s; last seen with "
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"none":      {nil, ""},
		"another":   {errDown, errDown.Error()},
		"a refusal": {held, heldText + other.String()},
		"in a chain": {
			fmt.Errorf("charge: %w (order 7)", held), "charge: " + heldText + other.String() +
				" (order 7)",
		},
		"deep":   {fmt.Errorf("a: %w", fmt.Errorf("b: %w", held)), "a: b: " + heldText + other.String()},
		"joined": {errors.Join(errDown, held), errDown.Error() + "\n" + heldText + other.String()},
		"a loss": {
			lost, "lockbeat: lease lost: " +
				"the store says that it is not ours any more: " + heldText + other.String(),
		},
		"in other words": {rephrased{held}, heldText + other.String()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, renewer.ErrorText(c.err))
		})
	}
	require.Contains(t, held.Error(), `acquire "jane": held`)
}

// rephrased shows the error below it in words of its own.
type rephrased struct{ error }

func (e rephrased) Error() string { return "no lock for jane" }
func (e rephrased) Unwrap() error { return e.error }
