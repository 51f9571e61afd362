package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed assets
var assets embed.FS

// templates are those of a page: what all of its answers have in common is
// bound to them.
func (c *Config) templates() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"thousands": thousands, "traceURL": c.traceURL,
		"title":    func() string { return c.Title },
		"colour":   func() string { return c.Colour },
		"traceFor": func() string { return c.TraceURL },
	}).ParseFS(assets, "assets/*.html"))
}

// contentTypes are those of the files that browsers load, by their ends.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
}

// policy lets a browser load, run and ask nothing but what comes from here, and
// no site frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"frame-ancestors 'none'; form-action 'self'; base-uri 'none'"

// secure sets what is said with every answer.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // addresses have names of locks
	h.Set("Cache-Control", "no-store")
}

// getFile answers with a style sheet or a script.
func (p *Page) getFile(w http.ResponseWriter, r *http.Request, name string) {
	kind := contentTypes[path.Ext(name)]
	data, err := fs.ReadFile(assets, "assets/"+name)
	if kind == "" || err != nil {
		p.refuse(w, http.StatusNotFound, "There is no such page.", "Go back to the list.")
		return
	}
	sum := sha256.Sum256(data)
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-cache") // asked for each time, and sent when it is new
	h.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
}

// show answers with a page.
func (p *Page) show(w http.ResponseWriter, status int, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	// The client has gone if this fails.
	_ = p.html.ExecuteTemplate(w, name, data)
}

// refuse answers with a page that says why there is no other.
func (p *Page) refuse(w http.ResponseWriter, status int, title, advice string) {
	p.show(w, status, "refused.html", refusal{fault: &fault{Title: title, Advice: advice}})
}

// refusal is what is shown in place of a page.
type refusal struct {
	*fault

	Back template.URL // the query of the lock that it is about; "" for none
}
