// Package mariatest runs private MariaDB servers for tests of what only a real
// one can prove.
//
//	server, err := mariatest.Open()                  // empty, on a socket in a folder of its own
//	db, err := sql.Open("mysql", server.DSN(""))     // by github.com/go-sql-driver/mysql
//	_, err = db.Exec("CREATE DATABASE shop")
//
// It needs the distribution's package, of which it takes mariadbd. The server
// has no users and rights: each client may do all. A test that runs as root
// starts it as the user mysql, or else nobody.
//
// A server belongs to the process that started it: on Linux it ends when that
// dies in any way.
//
// The package needs Unix and is empty elsewhere. It is test code: no production
// package may import it.
package mariatest
