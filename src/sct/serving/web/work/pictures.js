// Pictures from a file, the clipboard, a drop or the samples, as something to show and something to send.

import { Trouble } from "./service.js";

export const SAMPLES = [
  { name: "otters", file: "samples/otters.jpg", shows: "An otter on a rock, another in the water" },
  { name: "hikers", file: "samples/hikers.jpg", shows: "Six hikers on a dune" },
  { name: "photographer", file: "samples/photographer.jpg", shows: "A man behind a camera" },
];
const LONGEST_SIDE = 2048;
const QUALITY = 0.92;

/** A picture that is ready: {blob, url, name, width, height, sample, hash}. One that is too large is sent smaller. */
export async function openPicture(blob, { name, sample = null, limits }) {
  const bitmap = await decoded(blob, name);
  const isLarge = blob.size > limits.picture_bytes || bitmap.width * bitmap.height > limits.megapixels * 1e6;
  const {
    width,
    height,
    blob: sent,
  } = isLarge ? await smaller(bitmap) : { width: bitmap.width, height: bitmap.height, blob };
  bitmap.close();
  return { blob: sent, url: URL.createObjectURL(sent), name, width, height, sample, hash: null };
}

export async function openSample(sample, limits) {
  const response = await fetch(sample.file);
  if (!response.ok) throw new Trouble(`The sample ${sample.name} is not there (${response.status}).`);
  return openPicture(await response.blob(), { name: `${sample.name}.jpg`, sample: sample.name, limits });
}

async function decoded(blob, name) {
  try {
    return await createImageBitmap(blob, { imageOrientation: "from-image" });
  } catch {
    throw new Trouble(
      `${name} is no picture that this browser can read: a JPEG, PNG, WebP, GIF or AVIF file is wanted.`,
    );
  }
}

async function smaller(bitmap) {
  const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  const width = Math.max(1, Math.round(bitmap.width * scale));
  const height = Math.max(1, Math.round(bitmap.height * scale));
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  canvas.getContext("2d").drawImage(bitmap, 0, 0, width, height);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", QUALITY));
  return { width, height, blob };
}

/** The first picture among what was dropped or pasted; null where there is none. */
export function pictureFile(transfer) {
  const files = [...(transfer?.files ?? [])];
  return files.find((file) => file.type.startsWith("image/")) ?? files[0] ?? null;
}
