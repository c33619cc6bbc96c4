import * as v from "valibot";

/** A coding that a build leaves beside a file: `app-x.js.br`. */
type Coding = "br" | "gzip";

/** A file of the built user interface, held in memory: it is small, and no request ever names a path of the disk. */
export interface Asset {
  type: string;
  bytes: Uint8Array<ArrayBuffer>;
  encoded: Partial<Record<Coding, Uint8Array<ArrayBuffer>>>;
  /** A strong validator of the bytes, quoted. */
  etag: string;
  /** Whether the name holds a hash of the content, so that it may be cached for good. */
  immutable: boolean;
}

/** The built user interface by URL path. */
export interface Assets {
  /** The file at a URL path, `/assets/app-1a2b3c4d.js`; undefined when there is none. */
  find(path: string): Asset | undefined;
  /** The one page of the application; undefined until it was built. */
  index: Asset | undefined;
  /** The URL path of what the build made of a source file, by its path in `ui/app`: `design/login.css`. */
  builtFrom(source: string): string | undefined;
}

/** Vite's manifest: what the build made of each entry. */
const Manifest = v.record(v.string(), v.object({ file: v.string() }));
const manifestPath = "/manifest.json";

const types: Readonly<Record<string, string>> = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  ico: "image/x-icon",
  js: "text/javascript; charset=utf-8",
  json: "application/json",
  map: "application/json",
  png: "image/png",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
  webmanifest: "application/manifest+json",
  woff2: "font/woff2",
};

const codings: readonly (readonly [suffix: string, coding: Coding])[] = [
  [".br", "br"],
  [".gz", "gzip"],
];

const hashed = /^\/assets\/.*-[A-Za-z0-9_-]{8,}\.[a-z0-9]+$/;

/**
 * Makes the assets of a build's files, by path below its folder (`assets/app-1a2b3c4d.js`). The manifest is read and
 * not served; nor are hidden files, and files of an unknown type.
 */
export const createAssets = async (
  files: Iterable<{ path: string; bytes: Uint8Array<ArrayBuffer> }>,
): Promise<Assets> => {
  const bytesByPath = new Map<string, Uint8Array<ArrayBuffer>>(
    Array.from(files, ({ path, bytes }) => [`/${path}`, bytes]),
  );
  const assets = new Map<string, Asset>();
  for (const [path, bytes] of bytesByPath) {
    const type = types[path.slice(path.lastIndexOf(".") + 1)];
    if (type === undefined || path === manifestPath || path.split("/").some((name) => name.startsWith("."))) continue;
    const encoded: Asset["encoded"] = {};
    for (const [suffix, coding] of codings) {
      const compressed = bytesByPath.get(path + suffix);
      if (compressed !== undefined) encoded[coding] = compressed;
    }
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    assets.set(path, { type, bytes, encoded, etag: `"${digest.slice(0, 16).toHex()}"`, immutable: hashed.test(path) });
  }
  const manifest = v.parse(Manifest, JSON.parse(new TextDecoder().decode(bytesByPath.get(manifestPath)) || "{}"));
  return {
    find: (path) => assets.get(path),
    index: assets.get("/index.html"),
    builtFrom: (source) => {
      const built = manifest[source];
      return built && `/${built.file}`;
    },
  };
};

/**
 * The answer that gives an asset: in the best coding that the browser takes (`Vary`), immutable for a year when the name is hashed,
 * else revalidated each time; 304 when the browser has it.
 */
export const assetResponse = (asset: Asset, headers: Headers): Response => {
  const coding = codings.find(([, name]) => asset.encoded[name] && accepts(headers.get("accept-encoding"), name))?.[1];
  // Another coding is another representation, so it has another validator (RFC 9110, 8.8.3.3).
  const etag = coding === undefined ? asset.etag : `${asset.etag.slice(0, -1)}-${coding}"`;
  const common = {
    "Cache-Control": asset.immutable ? "public, max-age=31536000, immutable" : "no-cache",
    ETag: etag,
    Vary: "Accept-Encoding",
  };
  const known = headers.get("if-none-match")?.split(/\s*,\s*/) ?? [];
  if (known.some((tag) => tag.replace(/^W\//, "") === etag))
    return new Response(null, { status: 304, headers: common });
  const bytes = (coding && asset.encoded[coding]) ?? asset.bytes;
  return new Response(bytes, {
    headers: { ...common, "Content-Type": asset.type, ...(coding ? { "Content-Encoding": coding } : {}) },
  });
};

/** Whether an `Accept-Encoding` takes a coding; `q=0` refuses it. */
const accepts = (header: string | null, coding: string): boolean =>
  (header ?? "")
    .toLowerCase()
    .split(",")
    .some((item) => {
      const [name, ...parameters] = item.split(";").map((part) => part.trim());
      return name === coding && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
    });
