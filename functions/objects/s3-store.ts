import { concatBytes, equalBytes, lengthOf } from "#kit/bytes.ts";
import {
  ObjectChanged,
  ObjectExists,
  ObjectMissing,
  type ObjectStore,
  ObjectStoreUnavailable,
  type StoredObject,
} from "./object-store.ts";
import { createS3Caller, type S3Needs, type S3Place, type S3Response } from "./s3-calls.ts";

/** The most names of one response. */
const namesMax = 1_000;
const deletesAtOnce = 8;

/** The effect of versions in a bucket. */
export const versionsHazard =
  "the bucket keeps versions: objects that core deletes still use space";

/** What headers of responses reveal about the bucket. */
const hazardHeaders: Readonly<Record<string, string>> = {
  "x-amz-version-id": versionsHazard,
  "x-amz-expiration": "a rule of the bucket deletes objects: core must do that",
  "x-amz-object-lock-mode": "the bucket locks objects: core cannot delete them",
};

/** Creates the store of a bucket, by the S3 protocol. Connects at the first call. */
export const createS3Store = (place: S3Place, needs: S3Needs): ObjectStore => {
  const call = createS3Caller(place, needs);
  let hazards: string[] = [];
  /** Whether the server knows the header that keeps an object from being overwritten. */
  let isConditional = true;

  const noteHazards = ({ header }: S3Response) => {
    hazards = Object.entries(hazardHeaders).flatMap(([name, hazard]) =>
      [undefined, "null"].includes(header(name)) ? [] : [hazard],
    );
  };

  const read: ObjectStore["read"] = async (name, range) => {
    const isTail = "last" in range;
    const length = isTail ? range.last : range.length;
    const bounds = isTail ? `-${length}` : `${range.offset}-${range.offset + length - 1}`;
    const response = await call({
      method: "GET",
      key: place.prefix + name,
      headers: { range: `bytes=${bounds}` },
      bytesMax: Math.max(length, 64 * 1024),
      expects: ["NoSuchKey", "InvalidRange"],
    });
    const { error, bytes } = response;
    if (error === "NoSuchKey") throw new ObjectMissing(name);
    noteHazards(response);
    if (error !== "" || (!isTail && bytes.length !== length)) throw new ObjectChanged(name);
    return bytes;
  };

  const put: ObjectStore["put"] = async (name, parts, signal) => {
    const headers = {
      "x-amz-content-sha256": needs.hash(parts),
      ...(isConditional && { "if-none-match": "*" }),
    };
    const request = { method: "PUT" as const, key: place.prefix + name, headers, body: parts };
    const expects = ["PreconditionFailed", ...(isConditional ? ["NotImplemented"] : [])];
    const response = await call({ ...request, expects }, signal);
    noteHazards(response);
    if (response.error === "NotImplemented") {
      isConditional = false;
      return put(name, parts, signal);
    }
    if (response.error === "") return;
    // An earlier attempt, whose response was lost, may have stored it.
    const stored = await read(name, { last: lengthOf(parts) + 1 });
    if (!equalBytes(stored, concatBytes(parts))) throw new ObjectExists(name);
  };

  const listPage = async (prefix: string, after: string, limit: number) => {
    const { bytes } = await call({
      method: "GET",
      key: "",
      query: {
        "list-type": "2",
        "encoding-type": "url",
        "max-keys": String(Math.min(namesMax, limit)),
        prefix: place.prefix + prefix,
        ...(after && { "start-after": place.prefix + after }),
      },
    });
    return readListing(new TextDecoder().decode(bytes), place.prefix.length);
  };

  return {
    put,
    read,
    async list({ prefix, after = "", limit }) {
      const found: StoredObject[] = [];
      for (let from = after; found.length < limit; ) {
        const { objects, isTruncated } = await listPage(prefix, from, limit - found.length);
        for (const object of objects) {
          if (object.name <= from)
            throw new ObjectStoreUnavailable("the bucket does not list objects in their order");
          from = object.name;
          found.push(object);
        }
        if (!isTruncated || objects.length === 0) break;
      }
      return found;
    },
    async delete(names, signal) {
      for (let at = 0; at < names.length; at += deletesAtOnce) {
        const deleting = names.slice(at, at + deletesAtOnce);
        const expects = ["NoSuchKey"];
        await Promise.all(
          deleting.map((name) =>
            call({ method: "DELETE", key: place.prefix + name, expects }, signal),
          ),
        );
      }
    },
    hazards: () => hazards,
  };
};

const readListing = (xml: string, prefixLength: number) => {
  const decode = xml.includes("<EncodingType>url</EncodingType>")
    ? (key: string) => decodeURIComponent(key.replaceAll("+", " "))
    : (key: string) => key;
  return {
    objects: xml
      .split("<Contents>")
      .slice(1)
      .map((text) => ({
        name: decode(/<Key>([^<]*)<\/Key>/.exec(text)?.[1] ?? "").slice(prefixLength),
        bytes: Number(/<Size>(\d+)<\/Size>/.exec(text)?.[1]),
      })),
    isTruncated: xml.includes("<IsTruncated>true</IsTruncated>"),
  };
};
