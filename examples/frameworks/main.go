// Command frameworks puts locks around handlers of gin and echo: app.go has the
// routes, echo.go the bridge from echo to net/http's middleware; gin's is
// package ginmw. It sends some requests to both and prints the answers.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/gin-gonic/gin"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func main() {
	gin.SetMode(gin.ReleaseMode)
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		log.Fatal(err)
	}
	tell(os.Stdout, keeper)
	if err := keeper.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// tell has each framework answer a request, a second one for the same account
// meanwhile, and one whose work fails.
func tell(out io.Writer, k *renewer.Keeper) {
	for _, framework := range []struct {
		name   string
		server func(*renewer.Keeper, work, ...httpmw.Option) http.Handler
	}{{"gin", withGin}, {"echo", withEcho}} {
		var server http.Handler
		show := func(says string, account string) {
			answer := transfer(server, account)
			_, _ = fmt.Fprintf(out, "%-5s %-25s %d %s\n", framework.name, says, answer.Code,
				answer.Header().Get("Content-Type"))
		}
		server = framework.server(k, func(_ context.Context, account string) error {
			switch account {
			case "7":
				show("meanwhile, account 7:", "7")
			case "broke":
				return errBroke
			}
			return nil
		}, lockmw.Refuse())
		show("account 7:", "7")
		show("an account without money:", "broke")
	}
}

func transfer(server http.Handler, account string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodPost,
		"/accounts/"+account+"/transfer", http.NoBody))
	return w
}
