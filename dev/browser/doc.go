// Package browser tests the pages of berthweb, and the pictures of the README and of docs, in a
// browser: Debian's chromium, or whatever $BERTH_CHROMIUM names.
//
//	go test ./dev/browser -shots DIR
//
// writes a picture of each page, at two widths, light and dark.
package browser
