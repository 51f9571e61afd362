package main

// crowdRows are what waiting costs, by how many wait.
var crowdRows = []section{
	{"handoffs", handOffs},
	{"overtaken", overtaken},
	{"dead", deadWaiters},
	{"residue", residue},
	{"uncontended", uncontended},
}
