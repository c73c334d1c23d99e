// What a person takes away: text on the clipboard, files.

/** Offer something as a file. */
export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = Object.assign(document.createElement("a"), { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Put text on the clipboard; pages that are not on this machine may have to do it the old way. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = Object.assign(document.createElement("textarea"), { value: text, className: "unseen" });
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  if (!isDone) throw new Error("this browser does not let the page copy");
}

/** A name for a file that belongs to a picture. */
export const fileName = (picture, ending) => `${picture.name.replace(/\.[^.]*$/, "") || "picture"}-caption.${ending}`;

export async function asDataAddress(blob) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(blob);
  });
}

/** A drawing in pixels, twice as fine as it is large. */
export async function asPng(svg, { width, height }) {
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}
