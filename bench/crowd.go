package main

// crowdRows are what waiting costs, by how many wait.
var crowdRows = []section{
	{"handoffs", handOffs},
}
