package page

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
)

// tokenCookie and the field tokenField of a form carry one random value: a site
// that can make a browser send the form can't read the cookie. The processes
// that serve a page behind one address need not know each other for that. Its
// path is the page's, as the browser takes it.
const (
	tokenCookie = "lockbeat-page"
	tokenField  = "token"
	tokenLen    = 26 // of rand.Text
)

// formToken is the value for a form in the answer to r.
func formToken(w http.ResponseWriter, r *http.Request) string {
	if c, err := r.Cookie(tokenCookie); err == nil && len(c.Value) == tokenLen {
		return c.Value
	}
	token := rand.Text()
	http.SetCookie(w, &http.Cookie{
		Name: tokenCookie, Value: token, HttpOnly: true, Secure: r.TLS != nil,
		SameSite: http.SameSiteStrictMode,
	})
	return token
}

// ownForm reports whether a form was filled in on this page.
func ownForm(r *http.Request) bool {
	c, err := r.Cookie(tokenCookie)
	return err == nil && c.Value != "" && sameOrigin(r) &&
		subtle.ConstantTimeCompare([]byte(c.Value), []byte(r.PostForm.Get(tokenField))) == 1
}

// sameOrigin reports whether a request is of no other site, as far as browsers
// say.
func sameOrigin(r *http.Request) bool {
	asked := r.WithContext(r.Context()) // a copy: what is safe by its method would pass
	asked.Method = http.MethodPost
	return http.NewCrossOriginProtection().Check(asked) == nil
}
