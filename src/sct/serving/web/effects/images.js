// Images from a file, the clipboard, a drop or the samples.

export const SAMPLES = [
  { name: "otters", file: "samples/otters.jpg", title: "An otter on a rock, another in the water" },
  { name: "hikers", file: "samples/hikers.jpg", title: "Six hikers on a dune" },
  { name: "photographer", file: "samples/photographer.jpg", title: "A man behind a camera" },
];
const MAX_SIDE = 2048;
const JPEG_QUALITY = 0.92;

/** An id for an image; `crypto.randomUUID` exists in secure contexts only. */
const newId = () => [...crypto.getRandomValues(new Uint32Array(3))].map((part) => part.toString(36)).join("-");

/** Decode an image: {id, blob, url, name, width, height, sample, hash}. Images over the limits are downscaled. */
export async function openImage(blob, { name, sample = null, limits }) {
  const bitmap = await decode(blob, name);
  const isLarge = blob.size > limits.image_bytes || bitmap.width * bitmap.height > limits.megapixels * 1e6;
  const {
    width,
    height,
    blob: upload,
  } = isLarge ? await shrink(bitmap) : { width: bitmap.width, height: bitmap.height, blob };
  bitmap.close();
  return { id: newId(), blob: upload, url: URL.createObjectURL(upload), name, width, height, sample, hash: null };
}

export async function openSample(sample, limits) {
  const response = await fetch(sample.file);
  if (!response.ok) throw new Error(`The sample ${sample.name} cannot be loaded (${response.status}).`);
  return openImage(await response.blob(), { name: `${sample.name}.jpg`, sample: sample.name, limits });
}

async function decode(blob, name) {
  try {
    return await createImageBitmap(blob, { imageOrientation: "from-image" });
  } catch {
    throw new Error(`${name} is not an image this browser can read: use a JPEG, PNG, WebP, GIF or AVIF file.`);
  }
}

async function shrink(bitmap) {
  const scale = Math.min(1, MAX_SIDE / Math.max(bitmap.width, bitmap.height));
  const width = Math.max(1, Math.round(bitmap.width * scale));
  const height = Math.max(1, Math.round(bitmap.height * scale));
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  canvas.getContext("2d").drawImage(bitmap, 0, 0, width, height);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", JPEG_QUALITY));
  return { width, height, blob };
}

/** Dropped or pasted files: images and control files, or whatever there is. */
export function filesOf(transfer) {
  const files = [...(transfer?.files ?? [])];
  const known = files.filter(({ type }) => type.startsWith("image/") || type === "application/json");
  return known.length > 0 ? known : files.slice(0, 1);
}
