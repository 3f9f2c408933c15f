export function startGeneration() {}
