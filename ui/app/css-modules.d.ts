/** Vite puts the stylesheet of a part that is loaded on demand into a file of its own. */
declare module "*.css";
