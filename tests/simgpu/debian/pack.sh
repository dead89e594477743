#!/bin/sh
# Packs out/ as a Debian package. Run by `make deb`, which gives VERSION, MULTIARCH and OUT.
set -eu
deb=$1
root=$OUT/deb
libc=$(ldd --version | sed -n '1s/.* //p')

rm -rf "$root"
mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/usr/lib/$MULTIARCH"
sed -e "s/@VERSION@/$VERSION/" -e "s/@LIBC@/$libc/" debian/control >"$root/DEBIAN/control"
for script in postinst prerm postrm; do
    install -m 755 "debian/$script" "$root/DEBIAN/$script"
done
install -m 755 "$OUT"/bin/* "$root/usr/bin/"
cp -a "$OUT"/lib/lib*.so* "$root/usr/lib/$MULTIARCH/"
dpkg-deb --root-owner-group -Zxz -b "$root" "$deb" >/dev/null
rm -rf "$root"
echo "  deb $deb"
