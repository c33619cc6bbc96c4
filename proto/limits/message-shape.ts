import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import { WireLimitError } from "../wire.ts";
import { bytesMaxOf, valuesMaxOf } from "./message-limits.ts";

/** The part of a message's schema that checks need. */
export interface Shape {
  readonly name: string;
  readonly bytesMax: number;
  /** By field number. */
  readonly fields: FieldShape[];
  /** By the names that JSON may have. */
  readonly names: Map<string, FieldShape>;
}

/** A field of a shape. */
export interface FieldShape {
  /** Undefined for a singular field. */
  readonly counter: ValueCounter | undefined;
  readonly wireType: WireType;
  /** Repeated scalars may be packed. */
  readonly packable: boolean;
  readonly message: Shape | undefined;
  readonly isText: boolean;
}

/** Counts the values of a repeated field or a map in the whole message. */
export interface ValueCounter {
  readonly name: string;
  readonly max: number;
  count: number;
}

/** The parts of a schema's shape. */
interface Known {
  readonly shapes: Map<string, Shape>;
  readonly counters: ValueCounter[];
}

/** Returns the shape of a schema, and the counters of its fields, which a check sets to 0. */
export const createShape = (
  schema: DescMessage,
): { shape: Shape; counters: readonly ValueCounter[] } => {
  const known: Known = { shapes: new Map(), counters: [] };
  return { shape: shapeOf(schema, known), counters: known.counters };
};

/** Counts a value. Throws `WireLimitError`. */
export const countValue = (counter: ValueCounter): void => {
  if (++counter.count > counter.max) throw tooManyValues(counter);
};

const tooManyValues = ({ name, max }: ValueCounter): WireLimitError =>
  new WireLimitError(`${name} is over the limit of ${max} values`, name);

const shapeOf = (schema: DescMessage, known: Known): Shape => {
  const found = known.shapes.get(schema.typeName);
  if (found !== undefined) return found;
  const shape: Shape = {
    name: schema.name,
    bytesMax: bytesMaxOf(schema.typeName),
    fields: [],
    names: new Map(),
  };
  known.shapes.set(schema.typeName, shape);
  for (const field of schema.fields) {
    const fieldShape = fieldShapeOf(field, known);
    shape.fields[field.number] = fieldShape;
    shape.names.set(field.name, fieldShape).set(field.jsonName, fieldShape);
  }
  return shape;
};

const fieldShapeOf = (field: DescField, known: Known): FieldShape => {
  const { name, parent, fieldKind, scalar, message } = field;
  const value = valueShapeOf(scalar, message && shapeOf(message, known));
  if (fieldKind !== "list" && fieldKind !== "map") return value;
  const counter = { name, max: valuesMaxOf(`${parent.typeName}.${name}`), count: 0 };
  known.counters.push(counter);
  if (fieldKind === "list")
    return { ...value, counter, packable: value.wireType !== WireType.LengthDelimited };
  const entry: Shape = { name, bytesMax: Number.POSITIVE_INFINITY, fields: [], names: new Map() };
  entry.fields[1] = valueShapeOf(field.mapKey, undefined);
  entry.fields[2] = value;
  return { ...valueShapeOf(undefined, entry), counter };
};

const valueShapeOf = (scalar: ScalarType | undefined, message: Shape | undefined): FieldShape => ({
  counter: undefined,
  wireType: message ? WireType.LengthDelimited : wireTypeOf(scalar),
  packable: false,
  message,
  isText: scalar === ScalarType.STRING,
});

/** Returns the wire type of a scalar; undefined is an enum. */
const wireTypeOf = (type: ScalarType | undefined): WireType => {
  switch (type) {
    case ScalarType.STRING:
    case ScalarType.BYTES:
      return WireType.LengthDelimited;
    case ScalarType.DOUBLE:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return WireType.Bit64;
    case ScalarType.FLOAT:
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
      return WireType.Bit32;
    default:
      return WireType.Varint;
  }
};
