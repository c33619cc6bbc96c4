import type { S3Place } from "./s3-calls.ts";

/** Where a store is. */
export type StoreLocation =
  | { kind: "directory"; path: string }
  | {
      kind: "s3";
      place: S3Place;
      /** The authorities that verify the server; null: those of the machine. */
      caFile: string | null;
    };

const directoryForm = /^directory:(\/.+)$/;
const bucketForm = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:\/[\w-][\w.-]*)*)\/?(?:\?(.*))?$/;
const regionForm = /^[a-z0-9-]{1,32}$/;
const regionOfOthers = "us-east-1";

/** Reads `directory:/path`, or `s3://bucket/prefix` with `endpoint`, `region`, `style` and `ca_file` in its query; null for any other text. */
export const readStoreLocation = (text: string): StoreLocation | null => {
  const [, path] = directoryForm.exec(text) ?? [];
  if (path !== undefined) return { kind: "directory", path };
  const [, bucket, prefix = "", query = ""] = bucketForm.exec(text) ?? [];
  if (bucket === undefined) return null;
  const values = Object.fromEntries(new URLSearchParams(query));
  const { endpoint, region = regionOfOthers, style, ca_file: caFile = null, ...others } = values;
  const bucketUrl = bucketUrlOf(bucket, { endpoint, region, style });
  const isKnown = Object.keys(others).length === 0 && (caFile?.startsWith("/") ?? true);
  if (bucketUrl === null || !isKnown) return null;
  const place = { bucketUrl, prefix: prefix && `${prefix.slice(1)}/`, region };
  return { kind: "s3", place, caFile };
};

/** Returns the URL of a bucket, by its path on an endpoint or as a host of AWS unless `style` says otherwise. */
const bucketUrlOf = (
  bucket: string,
  query: { endpoint: string | undefined; region: string; style: string | undefined },
): string | null => {
  const { endpoint, region, style = endpoint ? "path" : "virtual" } = query;
  const url = URL.parse(endpoint ?? `https://s3.${region}.amazonaws.com`);
  if (url === null || !/^https?:$/.test(url.protocol) || url.href !== `${url.origin}/`) return null;
  if (!regionForm.test(region)) return null;
  if (style === "path") return `${url.href}${bucket}/`;
  return style === "virtual" ? `${url.protocol}//${bucket}.${url.host}/` : null;
};
