// Package uitest tests the pages of berthweb, and the pictures of the README and of docs, in a
// browser: Debian's chromium, or whatever $BERTH_CHROMIUM names. A module of its own, so that
// nothing else depends on the driver.
//
//	go test ./uitest -shots DIR
//
// writes a picture of each page, at two widths, light and dark.
package uitest
