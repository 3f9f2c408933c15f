export function startRuns() {}
