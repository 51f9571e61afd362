// Package newest is what the adapters check of their options Replace and Latest.
package newest

import (
	"fmt"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
)

// Check refuses, with renewer.ErrConfig, options that no call of k can have, of which there may be
// none. So a program learns of it when it starts. limited means that names are made limits.
func Check[Option any](given []Option, k *renewer.Keeper, limited bool) error {
	if len(given) == 0 {
		return nil
	}
	if limited {
		return fmt.Errorf("%w: Replace, Latest: they are for locks, and not for limits (AtMost, "+
			"LocalShare): leave one of the two out", renewer.ErrConfig)
	}
	if _, ok := k.Store().(contract.Replacer); !ok {
		return fmt.Errorf("%w: Replace, Latest: a %T does not know which call is the newest: use "+
			"one of redisstore or memory", renewer.ErrConfig, k.Store())
	}
	return nil
}
