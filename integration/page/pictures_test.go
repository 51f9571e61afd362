package page_test

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/inspect/page"
)

var (
	pictures = flag.String("pictures", "", "write pictures of all pages into this folder")
	docs     = flag.Bool("docs", false, "write those of the docs there")
)

// inDocs are the pictures of the docs.
var inDocs = map[string]string{
	"list-light": "page.png", "list-dark": "page-dark.png", "lock-light": "page-lock.png",
	"dashboard": "dashboard.png",
}

// testLooks looks at all pages in all forms, and takes the pictures.
func testLooks(t *testing.T, b *browser) {
	f, url := serveAs(t, page.Config{Title: "production, redis-1:6379", Colour: "red"}, office()...)
	for name, l := range map[string]look{"light": desktop, "dark": dark, "phone": phone} {
		for what, path := range map[string]string{
			"list": "", "lock": "lock?name=account:7", "limit": "lock?limit=1&name=llm:chat",
			"broken": "lock?name=upload:tenant-12", "free": "lock?name=nothing", "none": "?q=nothing",
		} {
			l.scale = 2
			p := b.open(t, l)
			f.restart()
			p.visitLive(url + path)
			p.fits()
			p.keep(what + "-" + name)
			if what == "lock" {
				p.visit(eval[string](p, `document.querySelector(".act a").href`))
				p.fits()
				p.keep("break-" + name)
			}
			ground := eval[string](p, `getComputedStyle(document.body).backgroundColor`)
			assert.Equal(t, name == "dark", ground == "rgb(18, 19, 21)", ground)
		}
	}
}

// keep writes a picture, if that is wanted, and returns it.
func (p *tab) keep(name string) []byte {
	p.t.Helper()
	var files []string
	if file := inDocs[name]; *docs && file != "" {
		files = append(files, filepath.Join("..", "..", "docs", file))
	}
	if *pictures != "" {
		files = append(files, filepath.Join(*pictures, name+".png"))
	}
	if len(files) == 0 {
		return nil
	}
	picture := small(p.t, p.picture())
	for _, file := range files {
		require.NoError(p.t, os.WriteFile(file, picture, 0o644)) //nolint:gosec // as git has it
	}
	return picture
}

// small has a picture use 256 colours, of those alike the one that it has most of: that halves it.
func small(t *testing.T, data []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	bounds, counts := full.Bounds(), make(map[color.Color]int)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[full.At(x, y)]++
		}
	}
	var palette color.Palette
	for _, c := range slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int {
		return cmp.Compare(counts[b], counts[a])
	}) {
		if len(palette) < 256 && (len(palette) == 0 || !alike(c, palette.Convert(c))) {
			palette = append(palette, c)
		}
	}
	indexes := make(map[color.Color]uint8)
	for c := range counts {
		indexes[c] = uint8(palette.Index(c)) //nolint:gosec // of 256
	}
	few := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			few.SetColorIndex(x, y, indexes[full.At(x, y)])
		}
	}
	var b bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, few))
	return b.Bytes()
}

// alike reports whether nobody would see the difference.
func alike(a, b color.Color) bool {
	far := func(x, y uint32) bool { return max(x, y)-min(x, y) > 5<<8 }
	r1, g1, b1, _ := a.RGBA()
	r2, g2, b2, _ := b.RGBA()
	return !far(r1, r2) && !far(g1, g2) && !far(b1, b2)
}
