// Imported dynamically in the package's place: a bundle loses the names of a CommonJS package that is.
export { parse, stringify } from "yaml";
