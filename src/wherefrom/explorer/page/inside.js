export class Inside { changed() {} }
