package lockmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// lossClock notes when the engine has told of a loss.
type lossClock struct {
	renewer.NopObserver

	at chan time.Time
}

func (c lossClock) Lost(context.Context, renewer.Lost) { c.at <- time.Now() }

// A detached inner call is told when the engine knows, also if the outer call's caller has gone,
// so that the outer context had ended before: it has the same notice as any other.
func TestADetachedInnerCallIsToldAtOnce(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(s *script.Store, k *renewer.Keeper){
		"deleted": func(s *script.Store, _ *renewer.Keeper) { s.Delete("a") },
		"shut down": func(_ *script.Store, k *renewer.Keeper) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_ = k.Shutdown(ctx)
		},
		"never renewed": func(s *script.Store, _ *renewer.Keeper) {
			s.Default(script.Renew, script.Hang())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := script.New()
				heard := lossClock{at: make(chan time.Time, 1)}
				k, err := renewer.New(s, renewer.Config{TTL: renewer.DefaultTTL, Observer: heard})
				require.NoError(t, err)
				caller, leave := context.WithCancel(t.Context())
				over := make(chan time.Time, 2)
				inside := make(chan struct{})
				go func() {
					_, _ = lockmw.Do(caller, k, "a", func(ctx context.Context) (int, error) {
						return lockmw.Do(context.WithoutCancel(ctx), k, "a",
							func(ctx context.Context) (int, error) {
								return lockmw.Do(context.WithoutCancel(ctx), k, "a",
									func(innermost context.Context) (int, error) {
										close(inside)
										<-ctx.Done()
										over <- time.Now()
										<-innermost.Done()
										over <- time.Now()
										assert.ErrorIs(t, context.Cause(innermost), renewer.ErrLost)
										return 0, nil
									})
							})
					})
				}()
				<-inside
				leave()
				elapse(time.Minute)
				lose(s, k)
				told := <-heard.at
				assert.Equal(t, told, <-over)
				assert.Equal(t, told, <-over)
				s.Default(script.Renew, script.Pass())
				_ = k.Shutdown(t.Context())
				elapse(time.Minute) // it may go on behind its caller's back
			})
		})
	}
}
