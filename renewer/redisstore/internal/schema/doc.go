// Package schema is what stands on the server, in text: what our keys and
// channels are called, and what the values there say. Programs of other
// versions read and write them beside us, and any user of the server may have
// written them, so that nothing is believed of what is not of our making.
//
// It owns those texts alone: it sends nothing, keeps nothing, and decides
// nothing. What a script answers is no value, and is read by who has called it.
package schema
