package berthhttp

// Hostile is hostile for the external tests.
var Hostile = hostile
