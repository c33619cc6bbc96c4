import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { eachField, readWire, wireTag } from "../../../proto/wire.ts";

/** A message: its children, and its other fields. */
interface Group {
  /** The fields that all children share: resource or scope, and schema URL. */
  readonly header: Uint8Array;
  /** `[start, end)` of the children's bodies. */
  readonly children: readonly (readonly [number, number])[];
}

/** Field numbers, the same for every signal: of the resources in a request, and of the children in a resource and in a scope. */
const resourcesField = 1;
const childrenField = 2;
/** The limit of all parts together: a small request could otherwise repeat a large resource for thousands of items. */
const partsBytesMax = 64 * 1024 * 1024;
/** Tag and length of the messages around an item. */
const framingBytes = 24;

/**
 * Splits a well-formed export request of any signal into requests of at most `bytesMax` bytes, each with the resource and scope of
 * its items, in order. An item (span, log record, metric) is never split: one larger than `bytesMax` is alone in its request. Returns
 * null if the parts would be more than 64 MiB.
 */
export const splitExportRequest = (request: Uint8Array, bytesMax: number): Uint8Array[] | null => {
  if (request.byteLength <= bytesMax) return [request];
  const parts: Uint8Array[] = [];
  let resources: Uint8Array[] = [];
  let scopes: Uint8Array[] = [];
  let items: Uint8Array[] = [];
  let size = 0;
  let partsBytes = 0;

  const closeScope = (header: Uint8Array) => {
    if (items.length > 0) scopes.push(wrap(childrenField, [header, ...items]));
    items = [];
  };
  const closeResource = (header: Uint8Array) => {
    if (scopes.length > 0) resources.push(wrap(resourcesField, [header, ...scopes]));
    scopes = [];
  };
  const closePart = () => {
    if (resources.length > 0) parts.push(Buffer.concat(resources));
    resources = [];
    size = 0;
  };

  for (const [resourceStart, resourceEnd] of groupOf(request, 0, request.length, resourcesField).children) {
    const resource = groupOf(request, resourceStart, resourceEnd, childrenField);
    for (const [scopeStart, scopeEnd] of resource.children) {
      const scope = groupOf(request, scopeStart, scopeEnd, childrenField);
      const headers = resource.header.length + scope.header.length + framingBytes;
      size += headers;
      for (const [start, end] of scope.children) {
        const item = wrap(childrenField, [request.subarray(start, end)]);
        if (size + item.length > bytesMax && (items.length > 0 || scopes.length > 0 || resources.length > 0)) {
          closeScope(scope.header);
          closeResource(resource.header);
          partsBytes += size;
          closePart();
          if (partsBytes > partsBytesMax) return null;
          size = headers;
        }
        items.push(item);
        size += item.length;
      }
      closeScope(scope.header);
    }
    closeResource(resource.header);
  }
  closePart();
  return parts;
};

const groupOf = (bytes: Uint8Array, start: number, end: number, childField: number): Group => {
  const header: Uint8Array[] = [];
  const children: [number, number][] = [];
  readWire(bytes, (reader) => {
    let fieldStart = start;
    reader.pos = start;
    eachField(reader, end, (tag, valueEnd) => {
      if (tag >>> 3 === childField) children.push([reader.pos, valueEnd]);
      else header.push(bytes.subarray(fieldStart, valueEnd));
      fieldStart = valueEnd;
    });
  });
  return { header: Buffer.concat(header), children };
};

/** Encodes the parts as one length-delimited field. */
const wrap = (number: number, parts: readonly Uint8Array[]): Uint8Array => {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const head = new BinaryWriter().uint32(wireTag(number, WireType.LengthDelimited)).uint32(length).finish();
  return Buffer.concat([head, ...parts]);
};
