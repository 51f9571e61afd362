// Package ginmw is package httpmw for gin.
//
//	lock := ginmw.Middleware(keeper, func(c *gin.Context) string {
//		return lockmw.Key("account", c.Param("id"))
//	})
//	router.POST("/accounts/:id/transfer", lock, transfer)
//
// Of all requests for the same account one runs at a time, on any server.
// Package httpmw says what is answered, and which options fit.
//
// Put it on the route, or on a group below authentication: the lock is held for
// all handlers behind it. c.Request.Context() has it, and ends when it is lost;
// c itself does not. A handler whose context has ended returns without an
// answer, or with a 5xx. c must not outlive the handler, so put
// http.TimeoutHandler around the whole *gin.Engine.
package ginmw
