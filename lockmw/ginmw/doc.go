// Package ginmw runs gin handlers under distributed locks: it is package httpmw for gin.
//
//	lock := ginmw.Middleware(keeper, func(c *gin.Context) string {
//		return lockmw.Key("account", c.Param("id"))
//	})
//	router.POST("/accounts/:id/transfer", lock, transfer)
//
// Of all requests for the same account one runs at a time, on any server. Package httpmw says what
// is answered when the lock is held, lost or not to be had, and which options fit.
//
// [FromHTTP] makes middleware of gin of any of net/http: of httpmw.Middleware with a name such as
// httpmw.PathInt makes, which reads "7" and "07" as one account, or of idempotent.Middleware.
//
// # What to watch out for
//
//   - Put the lock on the route, or on a group below authentication: it is held for all handlers
//     behind it. c.Request.Context() has the lock, and ends when it is lost.
//   - A handler whose context has ended returns without an answer, or with a 5xx.
//   - Do not hand on the *gin.Context to a goroutine that outlives the handler; this is gin's rule.
//     So put http.TimeoutHandler around the whole *gin.Engine.
package ginmw
